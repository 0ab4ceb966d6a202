"""Scripts that write records on a GPU which no notebook writes."""
