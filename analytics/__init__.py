"""Analysis of log records with Spark. Knows the records only, nothing of the daemon that wrote them.

    __main__.py, cli.py     `python -m analytics ingest|report|explain|advise`, also for spark-submit
    session.py              the Spark session; places.py: files, wherever Spark keeps them; progress.py: how far it is
    schema.py, parse.py     what a record is; from lines of text to records and to what is none
    ingest.py, store.py     segments into Parquet, once each; what stands there
    runs.py, lives.py       what a run was, and from when to when its peers lived
    versions.py             which filter a subscription had when
    bounds.py, matching.py  filters as bounds; which publication matches which filter: the range join
    shapes.py               along which attributes the range join cuts
    faults.py, clocks.py    when events were at risk; whose clock was wrong
    truth.py                what was owed, and what became of it
    measures/               figures, each a function from tables to a table
    spread.py               mean, nearest-rank percentiles, maximum
    report/                 one HTML page, CSV and Parquet of every table
    explain.py, advise.py   one event's way; which overlay would have been cheapest

Every step is a function from DataFrames to a DataFrame: no Python code runs on the executors, so a cluster needs
nothing but Spark, and nothing is collected but finished tables and small samples.
"""
