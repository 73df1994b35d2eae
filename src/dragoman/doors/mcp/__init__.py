"""The MCP door: operations and skills as tools, tasks as resources, over streamable HTTP."""
