"""What a policy is, where it is found and how it is called.

Finding runs in the host; loading and calling, where the policy lives.
"""
