"""What every process needs: log lines, threads, a listening socket, folders that are safe to open."""
