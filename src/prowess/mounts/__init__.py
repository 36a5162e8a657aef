"""MCP servers mounted as tools: untrusted, reviewed, mapped to permission codes and risk, governed alike (X7)."""
