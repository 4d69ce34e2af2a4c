"""What people write and change by hand.

notes            texts under the caller's own keys
corrections      corrected cards and pins
change_log       reads the log of all changes
"""
