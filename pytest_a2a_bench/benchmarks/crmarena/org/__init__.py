"""Orgs that answer SOQL and SOSL: a local one over SQLite, and a live one over Salesforce's REST API."""
