"""What a person looks at while scheduling for a machine: what every directive changed (`explain`), two schedules or
machines beside each other (`compare`), and what other figures of the machine would mean (`sweep`).

All of them rest on accounts of simulated runs, and are there as functions (`tw.explain`, ...) and as commands.
"""
