"""The ports, and the connections of clients behind them."""
