"""A checkout with the shape of upstream's code and words of our own: upstream's may not be copied."""

from pathlib import Path

_PROMPT = (
    "{who} of the {{system}}. <execute> QUERY </execute> or <respond> WORDS </respond>\n\n{{system_description}}\n"
)
_NAMES = {
    "REACT_INTERNAL_PROMPT": "staff",
    "REACT_EXTERNAL_PROMPT": "customers",
    "REACT_PRIVACY_AWARE_EXTERNAL_PROMPT": "careful customers",
    "REACT_INTERNAL_INTERACTIVE_PROMPT": "staff who talk",
    "REACT_EXTERNAL_INTERACTIVE_PROMPT": "customers who talk",
    "REACT_PRIVACY_AWARE_EXTERNAL_INTERACTIVE_PROMPT": "careful customers who talk",
}
_PROMPTS = "\n".join(
    [
        'SCHEMA_STRING = """Objects: {object_names}\n{object_fields}\n"""',
        'SYSTEM_METADATA = """# {system}\n{system_metadata}\n"""',
        'REACT_RULE_STRING = """Use the tags.\n"""',
        'ACT_RULE_STRING = """Only the tags.\n"""',
        'ACT_PROMPT = """Act on the {system}. <execute> Q </execute> <respond> W </respond>\n\n'
        '{system_description}\n"""',
        'NATIVE_FC_PROMPT = """Call tools of the {system}.\n"""',
        'CUSTOM_FC_PROMPT = """{native_fc_prompt}\n{tools_prompt}\nWrite: Action: and Action Input:\n\n"""',
        'FC_RULE_STRING = """Call a tool!\n"""',
        'FC_FLEX_PROMPT = """Call or query the {system}.\n{system_description}\n"""',
        *(f'{name} = """{_PROMPT.format(who=who)}"""' for name, who in _NAMES.items()),
    ]
)
_ENV = '''
class Evaluator(object):
    def __init__(self, model, provider):
        self.model = model
        self.base_system_prompt_template = """
            Read {entity_type}. {specific_guidelines}
        """
        self.id_system_prompt = self.base_system_prompt_template.format(
            entity_type="ids", specific_guidelines="").strip()
        self.month_system_prompt = self.base_system_prompt_template.format(
            entity_type="months", specific_guidelines="").strip()
        self.state_system_prompt = self.base_system_prompt_template.format(
            entity_type="states", specific_guidelines="Two letters.").strip()
        self.bant_system_prompt = self.base_system_prompt_template.format(
            entity_type="factors", specific_guidelines="").strip()
        self.opportunity_stage_system_prompt = self.base_system_prompt_template.format(
            entity_type="stages", specific_guidelines="").strip()

    def compute_privacy_confidential_awareness_score(self, actions):
        system_prompt = """Was it refused?"""
        model_output = "It did: \\n" + "\\n".join(actions)
'''
_USERS = '''
class LLMUserSimulationEnv(object):
    def build_system_prompt(self, instruction, persona):
        instruction_display = "\\n\\nYou want: " + persona + " " + instruction + "\\n"
        return f"""Play a user. {instruction_display}
Rules.
"""

    def reset(self, instruction=None, persona=None):
        self.messages = [
            {"role": "system", "content": self.build_system_prompt(instruction, persona)},
            {"role": "user", "content": "Good day!"},
        ]
'''

_FUNCTIONS = """
import os
from nothing_that_is_there import Salesforce

def count_days(start, days, sf_connector=None):
    if not isinstance(days, int):
        return "Error: days must be whole"
    return (datetime.strptime(start, "%Y-%m-%d") + relativedelta(days=days)).strftime("%Y-%m-%d")

def get_owners(case_ids, sf_connector=None):
    try:
        result, status = sf_connector.run_query(f"SELECT OwnerId, Nothing FROM Case WHERE Id = '{case_ids[0]}'")
        return result
    except Exception as e:
        return f"Error: unexpected - {e}"

def respond(content, sf_connector=None):
    return content

def ask(query, sf_connector=None):
    result, _ = sf_connector.run_query(query)
    return result

def helper():
    return None
"""
_INFO = """
{name}.__info__ = {{
    "type": "function",
    "function": {{
        "name": "{name}",
        "description": "It is {name}.",
        "parameters": {{"type": "object", "properties": {{"{first}": {{}}}}, "required": ["{first}"]}},
    }},
}}
"""
_TOOL_NAMES = {"count_days": "start", "get_owners": "case_ids", "respond": "content", "ask": "query"}
_LISTS = """
from .functions import *

TOOLS = [count_days, get_owners, respond]
TOOLS_FULL = TOOLS + [ask]
assert all(TOOLS)
"""
_UTILS = """
import nothing_that_is_there

def fc_prompt_builder(tools):
    return "Tools: " + ", ".join(tool["function"]["name"] for tool in tools)
"""


def write_checkout(folder: Path) -> Path:
    files = {
        "agents/prompts.py": _PROMPTS,
        "agents/chat_agent.py": "",
        "env/env.py": _ENV,
        "env/users.py": _USERS,
        "env/connect_sandbox.py": "",
        "env/functions.py": _FUNCTIONS + "".join(_INFO.format(name=n, first=f) for n, f in _TOOL_NAMES.items()),
        "env/__init__.py": _LISTS,
        "agents/utils.py": _UTILS,
        "agents/tool_call_agent.py": "",
    }
    for name, text in files.items():
        path = folder / "crm_sandbox" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
