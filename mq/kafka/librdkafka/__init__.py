"""What librdkafka needs: its messages, its errors, its log lines, and clients that are made anew."""
