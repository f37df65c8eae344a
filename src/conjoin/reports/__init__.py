"""Reports on a model: its columns, what goes with what, and how reliable its predictions are."""

from conjoin.reports.calibration import calibration as calibration
from conjoin.reports.card import html_card as html_card
from conjoin.reports.graph import to_networkx as to_networkx
from conjoin.reports.links import interactions as interactions
from conjoin.reports.page import write_report as write_report
from conjoin.reports.picture import plot as plot
