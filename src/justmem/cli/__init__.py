"""The `justmem` command.

app                  global options, the list of commands, exit codes
options, context     arguments of the commands; one run of the command
remember_commands    add, remember, append, retry, rebuild, note
ask_commands         ask, recall, demo
browse_commands      commands that read a space without a model
change_commands      correct, pin, unpin, undo, forget, expire
store_commands       export, import, copy, backup, reembed, rekey, sweep
server_commands      serve, mcp, keys, hook, work
doctor_command       doctor, models
render, terminal     results as text; safe output to the terminal
"""

from justmem.cli.app import app, main

__all__ = ["app", "main"]
