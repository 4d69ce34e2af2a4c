"""The report: one HTML file that needs nothing else, with tables and plots."""

from justmem_eval.report.page import page

__all__ = ["page"]
