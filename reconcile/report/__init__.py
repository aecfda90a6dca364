"""What people and monitoring see of a run.

    summary.py       the summary of a run, and summary.json
    page.py          report.html: strips.py draws the windows, lateness.py the histogram, trend.py the
                     runs before, labels.py names things
    metrics.py       metrics.prom
    repair_plan.py   repair-plan.json

Pure functions of one structure; the job writes what they give.
"""
