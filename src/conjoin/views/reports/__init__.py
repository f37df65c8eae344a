"""Reports on a model: its columns, what goes with what, and how reliable its predictions are."""

from conjoin.joint.pair_links import interactions as interactions
from conjoin.views.reports.associations import counted_joints as counted_joints
from conjoin.views.reports.calibration import calibration as calibration
from conjoin.views.reports.held_out import check_held_out as check_held_out
from conjoin.views.reports.notebook import html_card as html_card
from conjoin.views.reports.notebook import plot as plot
from conjoin.views.reports.notebook import to_networkx as to_networkx
from conjoin.views.reports.report_page import write_report as write_report
