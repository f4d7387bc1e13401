"""Analysis of log records with Spark. Knows the records only, nothing of the daemon that wrote them."""
