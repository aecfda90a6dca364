"""What people and monitoring see of a run.

    summary.py   what a run says, and summary.json

Pure functions of one structure; the job writes what they give.
"""
