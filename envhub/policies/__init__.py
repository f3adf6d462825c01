"""Policies as the host knows them: what one is, obtaining it, its interpreter and its factory.

Runs in the host, and executes nothing of a policy but an installed provider's host half. What runs
where a policy acts is in `envhub.worker.policy`.
"""
