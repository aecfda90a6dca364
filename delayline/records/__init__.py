"""Records as bytes: messages, their headers, and what they look like once they are delivered or dead."""
