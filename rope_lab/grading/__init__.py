"""Exercises and predictions: is it right, and if not, what does the mistake look like?"""
