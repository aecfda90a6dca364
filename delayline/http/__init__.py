"""What every HTTP port of ours bounds before a request is read: connections, heads, and clients that do not go on."""
