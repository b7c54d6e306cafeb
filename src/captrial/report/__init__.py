"""Results of a competition for readers: one self-contained HTML page (`competition_page`, its `sections` and `charts`;
`preferences_page` where there are judgements alone, `trial_page` of a trial) and CSV tables (`csv_export`).
"""

from captrial.report.charts import Chart
from captrial.report.competition_page import write_competition_report
from captrial.report.csv_export import export_tables
from captrial.report.preferences_page import write_preference_report
from captrial.report.sections import SECTIONS, ReportData, ReportSection, SectionContent
from captrial.report.trial_page import write_trial_report

__all__ = [
    "SECTIONS",
    "Chart",
    "ReportData",
    "ReportSection",
    "SectionContent",
    "export_tables",
    "write_competition_report",
    "write_preference_report",
    "write_trial_report",
]
