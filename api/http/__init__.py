"""HTTP itself: what comes in is read strictly and within bounds, what goes out is a response or a problem."""
