"""Reports of runs: a table and curves for the terminal, one page for a browser, README rows."""

from passnet.report.errors import ReportError
from passnet.report.page import write_page
from passnet.report.publish import publish_run
from passnet.report.readme import has_marks, readme_disagreement, readme_results, update_readme
from passnet.report.text import text_report

__all__ = [
    "ReportError",
    "has_marks",
    "publish_run",
    "readme_disagreement",
    "readme_results",
    "text_report",
    "update_readme",
    "write_page",
]
