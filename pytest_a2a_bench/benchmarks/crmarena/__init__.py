"""CRMArena and CRMArena-Pro: questions about a Salesforce org, with an org of our own to ask."""
