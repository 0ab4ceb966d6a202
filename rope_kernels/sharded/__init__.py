"""Calls with DTensors: each rank rotates its own shard, and nothing is communicated."""
