"""Measurements that no notebook makes: each script here writes records, on a GPU."""
