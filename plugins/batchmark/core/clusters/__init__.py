"""Configurations of the EKS and multi-node clusters, and the cost of a run's file system."""
