"""What every layer may use: text and tokens, checks of arguments, tracing, time limits, files."""
