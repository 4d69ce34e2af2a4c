"""Measuring memory systems so that anyone can check it.

`Question` goes to a system, `Gold` to metrics and judge alone. Every stage leaves a file, one
line per question, and every figure can be added up again from those lines.

questions        questions on your own chats
benchmarks       official files -> questions and gold
systems, peers   what is measured: JustMem, references, and other systems by adapters
settings         everything that determines a run
runs             a run: build, retrieve, answer, judge
records          the files of a run
metrics          recall, answers, means over runs
judging          the judge
results          the figures of a run
tables           figures as tables of text
figures          figures for the documents
models           models of a run, with kept replies and vectors
batch            models behind a batch API
scripted         a scripted model for all systems
meter            counts the tokens of other systems
loopback         servers for the scripted model and the meter
estimate         what a run will cost
sidebyside       JustMem and other systems on the same conversations
peer_check       a quick trial of an adapter
text             how text is counted, fenced and compared
cli              the `justmem-eval` command
"""
