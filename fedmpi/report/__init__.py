"""Tables, figures and one HTML page, made from records only. For the algorithm itself, this room need not be opened.

`write.write_report` is the entry point of `fedmpi report`; `summary` is `fedmpi show`, `live` is `fedmpi watch`.

    study         the runs of an experiment, read from their records and grouped by scheme
    statistics    means over seeds and their intervals
    curves        loss and accuracy against rounds, bytes and seconds; target: the cost of reaching a loss
    draws         the cohorts that were drawn against the scheme's law
    results       the tables of a report; figures/: its figures; text: its sentences; page/: its HTML page
    tables        text tables (for all commands), CSV and LaTeX; format: numbers as text
"""
