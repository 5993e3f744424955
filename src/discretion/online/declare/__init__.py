"""What the owner declares: tables, columns, policies, users, and a first draft of it all."""
