"""Measuring memory systems so that anyone can check it.

`Question` goes to a system, `Gold` to metrics and judge alone. Every stage leaves a file, one
line per question, and every figure can be added up again from those lines.
"""
