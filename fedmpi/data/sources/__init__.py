"""Readers of data from elsewhere: each fetches or imports one dataset and writes it to the cache as a file of `store`.

A new source is one file here with a function import_NAME(path), and one line in `cache.SOURCES`. Files from others are
data, never code: nothing is unpickled or executed, and sizes are bounded before anything is read.
"""
