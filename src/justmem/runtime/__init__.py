"""What every layer may use: text and tokens, checks of arguments, tracing, time limits, files.

validation       text that can be stored, and checks of arguments
tokens           counts tokens
deadlines        time limits for rules
tracing          OpenTelemetry spans
addresses        addresses of servers, and the secrets in them
private_files    files that only their owner can read
process          which packages there are, and whether the program was forked
"""
