"""From what a producer wrote to when its message is due."""
