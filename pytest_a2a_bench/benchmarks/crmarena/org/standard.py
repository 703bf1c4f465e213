"""What is known of the benchmark's 27 objects: types, relationships, key prefixes, and descriptions of our own.

One line per field: ``name: type: description``. A reference is ``reference Target[,Target] Relationship[/Children]``:
the objects that it points at, the name by which a query walks there, and the one by which it walks back.

``longtext`` cannot be filtered, sorted or grouped by, as on Salesforce.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast, get_args

from pytest_a2a_bench.benchmarks.crmarena.org.hidden import HIDDEN_FIELDS
from pytest_a2a_bench.benchmarks.crmarena.org.schema import Field, FieldType, Formula, OrgSchema, SObject

_PUBLISHED = """
User 005
  Alias: text: Short name of the user
  Email: email: Where the user gets mail
  EmailEncodingKey: picklist: Character encoding of the user's mail, such as UTF-8
  FirstName: text: Given name of the user
  Id: id: Identifies the user
  LanguageLocaleKey: picklist: Language that the user works in, such as en_US
  LastName: text: Family name of the user
  LocaleSidKey: picklist: Locale in which dates and numbers are shown to the user
  Phone: phone: Where the user can be called
  ProfileId: reference Profile Profile: Profile that holds the user's permissions
  TimeZoneSidKey: picklist: Time zone of the user, such as America/New_York
  Username: text: Name with which the user logs in; unique

Account 001
  Description: longtext: What is known about the company
  Id: id: Identifies the account
  Industry: picklist: Trade that the company is in
  Name: text: Name of the company
  NumberOfEmployees: integer: How many people work there
  Phone: phone: Main telephone number
  ShippingState: text: State that goods are shipped to, by its two letters

Contact 003
  AccountId: reference Account Account/Contacts: Account that the person belongs to
  Email: email: Mail address of the person
  FirstName: text: Given name of the person
  Id: id: Identifies the contact
  LastName: text: Family name of the person

Case 500
  AccountId: reference Account Account/Cases: Account of the customer who opened the case
  ClosedDate: datetime: When the case was closed; empty while it is open
  ContactId: reference Contact Contact/Cases: Person who opened the case
  CreatedDate: datetime: When the case was opened
  Description: longtext: The problem in the customer's words
  Id: id: Identifies the case
  IssueId__c: reference Issue__c IssueId__r/Cases__r: Kind of issue that the case is about
  OrderItemId__c: reference OrderItem OrderItemId__r/Cases__r: Order line whose product the case is about
  OwnerId: reference User Owner: User who is responsible for the case now
  Priority: picklist: Urgency of the case: Low, Medium or High
  Status: picklist: How far the case is, such as New, Working or Closed
  Subject: text: The problem in one line

Knowledge__kav ka0
  FAQ_Answer__c: longtext: Full text of the article
  Id: id: Identifies the article
  Summary: textarea: The article in a sentence or two
  Title: text: Headline of the article
  UrlName: text: Part of the article's address that is its own

ProductCategory 0ZG
  CatalogId: reference ProductCatalog Catalog: Catalog that the category is part of
  Id: id: Identifies the category
  Name: text: Name of the category

Product2 01t
  Description: textarea: What the product does
  External_ID__c: text: Number of the product in other systems
  Id: id: Identifies the product
  IsActive: boolean: Whether the product is sold at present
  Name: text: Name of the product

ProductCategoryProduct 0ZK
  Id: id: Identifies the assignment
  ProductCategoryId: reference ProductCategory ProductCategory/ProductCategoryProducts: Category of the assignment
  ProductId: reference Product2 Product/ProductCategoryProducts: Product that is in the category

Pricebook2 01s
  Description: textarea: What the price book is for
  Id: id: Identifies the price book
  IsActive: boolean: Whether its prices are in use
  Name: text: Name of the price book
  ValidFrom: datetime: First moment at which its prices hold
  ValidTo: datetime: Last moment at which its prices hold

PricebookEntry 01u
  Id: id: Identifies the price
  Pricebook2Id: reference Pricebook2 Pricebook2/PricebookEntries: Price book that lists the price
  Product2Id: reference Product2 Product2/PricebookEntries: Product that the price is for
  UnitPrice: currency: Price of one piece

Order 801
  AccountId: reference Account Account/Orders: Account that ordered
  EffectiveDate: date: Day from which the order is in effect
  Id: id: Identifies the order
  OwnerId: reference User Owner: User who sold the order
  Pricebook2Id: reference Pricebook2 Pricebook2/Orders: Price book that the order was made from
  Status: picklist: Draft, or Activated once it is binding

OrderItem 802
  Id: id: Identifies the order line
  OrderId: reference Order Order/OrderItems: Order that the line is part of
  PriceBookEntryId: reference PricebookEntry PricebookEntry/OrderItems: Listed price that the line was made from
  Product2Id: reference Product2 Product2/OrderItems: Product ordered
  Quantity: number: Pieces ordered
  UnitPrice: currency: Price paid for one piece

EmailMessage 02s
  FromAddress: email: Address of the sender
  Id: id: Identifies the message
  MessageDate: datetime: When the message was sent
  ParentId: reference Case Parent/EmailMessages: Case that the message is about
  RelatedToId: reference Case,Opportunity RelatedTo/Emails: Case or opportunity that the message is about
  Subject: text: Subject line
  TextBody: longtext: Text of the message
  ToIds: text: Identifiers of those it was sent to

LiveChatTranscript 570
  AccountId: reference Account Account/LiveChatTranscripts: Account of the customer in the chat
  Body: longtext: What was said in the chat
  CaseId: reference Case Case/LiveChatTranscripts: Case that the chat is about
  ContactId: reference Contact Contact/LiveChatTranscripts: Person in the chat
  EndTime: datetime: When the chat ended
  Id: id: Identifies the chat
  LiveChatVisitorId: reference LiveChatVisitor LiveChatVisitor: Visitor in the chat
  OwnerId: reference User Owner: User who answered the chat

Issue__c a03
  Description__c: longtext: What goes wrong in such an issue
  Id: id: Identifies the issue
  Name: text: The issue in a few words

CaseHistory__c a04
  CaseId__c: reference Case CaseId__r/CaseHistories__r: Case that the change was made to
  CreatedDate: datetime: When the change was made
  Field__c: picklist: What changed: Case Creation, Owner Assignment or Case Closed
  Id: id: Identifies the change
  NewValue__c: reference User NewValue__r: Owner after an Owner Assignment; empty otherwise
  OldValue__c: reference User OldValue__r: Owner before an Owner Assignment; empty if there was none

Opportunity 006
  AccountId: reference Account Account/Opportunities: Account that may buy
  Amount: currency: Expected sum
  CloseDate: date: Day by which a decision is expected
  ContactId: reference Contact Contact/Opportunities: Person to talk to about it
  ContractID__c: reference Contract ContractID__r/Opportunities__r: Contract that came of it
  CreatedDate: datetime: When the opportunity was opened
  Description: longtext: What the customer is after
  Id: id: Identifies the opportunity
  Name: text: Name of the opportunity
  OwnerId: reference User Owner: User who pursues it
  Probability: percent: Chance of winning it, in percent
  StageName: picklist: How far it is: Qualification, Discovery, Quote, Negotiation or Closed

OpportunityLineItem 00k
  Id: id: Identifies the line
  OpportunityId: reference Opportunity Opportunity/OpportunityLineItems: Opportunity that the line is part of
  PricebookEntryId: reference PricebookEntry PricebookEntry/OpportunityLineItems: Listed price of the product
  Product2Id: reference Product2 Product2/OpportunityLineItems: Product offered
  Quantity: number: Pieces offered
  TotalPrice: currency: Sum of the line: pieces times price, less discount

Quote 0Q0
  AccountId: reference Account Account/Quotes: Account that the quote is for
  ContactId: reference Contact Contact/Quotes: Person that the quote is for
  CreatedDate: datetime: When the quote was written
  Description: longtext: What the quote offers
  ExpirationDate: date: Last day on which the quote can be accepted
  Id: id: Identifies the quote
  Name: text: Name of the quote
  OpportunityId: reference Opportunity Opportunity/Quotes: Opportunity that the quote is part of
  Status: picklist: How far the quote is, such as Draft, Approved or Accepted

QuoteLineItem 0QL
  Discount: percent: Reduction on the line, in percent
  Id: id: Identifies the line
  OpportunityLineItemId: reference OpportunityLineItem OpportunityLineItem/QuoteLineItems: Line that is quoted
  PricebookEntryId: reference PricebookEntry PricebookEntry/QuoteLineItems: Listed price of the product
  Product2Id: reference Product2 Product2/QuoteLineItems: Product quoted
  Quantity: number: Pieces quoted
  QuoteId: reference Quote Quote/QuoteLineItems: Quote that the line is part of
  TotalPrice: currency: Sum of the line: pieces times price, less discount
  UnitPrice: currency: Price of one piece

Contract 800
  AccountId: reference Account Account/Contracts: Account that the contract is with
  CompanySignedDate: date: Day on which we signed
  ContractTerm: integer: How many months it runs
  CustomerSignedDate: date: Day on which the customer signed
  Description: longtext: What was agreed
  Id: id: Identifies the contract
  StartDate: date: Day on which it begins
  Status: picklist: How far the contract is, such as Draft, Signed or Activated

VoiceCallTranscript__c a05
  Body__c: longtext: What was said in the call
  CreatedDate: datetime: When the call began
  EndTime__c: datetime: When the call ended
  Id: id: Identifies the call
  LeadId__c: reference Lead LeadId__r/VoiceCallTranscripts__r: Lead in the call
  OpportunityId__c: reference Opportunity OpportunityId__r/VoiceCallTranscripts__r: Opportunity that the call was about

Task 00T
  ActivityDate: date: Day by which it is to be done
  Description: longtext: What is to be done, at length
  Id: id: Identifies the task
  OwnerId: reference User Owner: User who is to do it
  Priority: picklist: Urgency of the task
  Status: picklist: How far the task is, such as Not Started, In Progress or Completed
  Subject: text: What is to be done, in one line
  WhatId: reference Opportunity,Account,Case,Order,Quote,Contract What/Tasks: Opportunity that the task is for

Event 00U
  Description: longtext: What the appointment is about
  DurationInMinutes: integer: Length in minutes
  Id: id: Identifies the event
  IsAllDayEvent: boolean: Whether it takes the whole day
  Location: text: Where it takes place
  OwnerId: reference User Owner: User who takes part
  StartDateTime: datetime: When it begins
  Subject: text: The appointment in one line
  WhatId: reference Opportunity,Account,Case,Order,Quote,Contract What/Events: Opportunity that the event is for

Territory2 0MI
  Description: textarea: States of the territory, by their two letters and with commas between
  Id: id: Identifies the territory
  Name: text: Name of the territory

UserTerritory2Association 0NJ
  Id: id: Identifies the assignment
  Territory2Id: reference Territory2 Territory2/UserTerritory2Associations: Territory of the assignment
  UserId: reference User User/UserTerritory2Associations: User who works in the territory

Lead 00Q
  Company: text: Company that the lead works for
  ConvertedAccountId: reference Account ConvertedAccount: Account that the lead became
  ConvertedContactId: reference Contact ConvertedContact: Contact that the lead became
  ConvertedDate: date: Day on which the lead was converted; empty if it was not
  CreatedDate: datetime: When the lead came in
  Email: email: Mail address of the lead
  FirstName: text: Given name of the lead
  Id: id: Identifies the lead
  IsConverted: boolean: Whether the lead became an account and a contact
  LastName: text: Family name of the lead
  OwnerId: reference User Owner: User who looks after the lead
  Phone: phone: Where the lead can be called
  Status: picklist: How far the lead is, such as New, Contacted or Qualified
  Title: text: Position of the lead in the company
"""

#: Fields that the published schema files call otherwise than the org does.
_MISNAMED = {
    ("Issue__c", "IssueDescription__c"): "Description__c",
    ("VoiceCallTranscript__c", "TranscriptBody__c"): "Body__c",
}


def _parse_field(line: str) -> Field:
    name, kind, description = (part.strip() for part in line.split(":", 2))
    return replace(_typed_field(name, kind.split()), description=description)


def _typed_field(name: str, kind: list[str]) -> Field:
    field_type = cast(FieldType, kind[0])
    if field_type not in get_args(FieldType):
        raise ValueError(f"field {name}: no such type as {field_type}")
    if field_type != "reference":
        return Field(name, type=field_type)
    parent, _, children = kind[2].partition("/")
    return Field(
        name,
        type="reference",
        refers_to=tuple(kind[1].split(",")),
        relationship=parent,
        children=children or None,
    )


def _parse_hidden(line: str) -> Field:
    """Read a hidden field: ``name: type`` or ``name: type = kind operand; operand``."""
    name, _, rest = line.partition(":")
    kind, _, formula = rest.partition(" = ")
    field = _typed_field(name.strip(), kind.split())
    return replace(field, formula=_parse_formula(formula.strip())) if formula else field


def _parse_formula(text: str) -> Formula:
    kind, _, operands = text.partition(" ")
    values = tuple(each.strip() for each in operands.split(";"))
    if kind == "constant":
        return Formula("constant", (values[0] == "true" if values[0] in ("true", "false") else values[0],))
    return Formula("words" if kind == "words" else "among", values)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    for block in text.strip().split("\n\n"):
        head, *lines = block.splitlines()
        yield head, lines


def _hidden_fields(published: tuple[Field, ...], name: str) -> tuple[Field, ...]:
    known = {field.name.lower() for field in published}
    every = HIDDEN_FIELDS["*"] + HIDDEN_FIELDS.get(name, ())
    fields = {field.name.lower(): field for field in map(_parse_hidden, every)}
    return tuple(field for name_, field in fields.items() if name_ not in known)


def _parse_objects() -> Iterator[SObject]:
    for head, lines in _blocks(_PUBLISHED):
        name, prefix = head.split()
        fields = tuple(_parse_field(line) for line in lines)
        yield SObject(name, fields, prefix, _hidden_fields(fields, name))


#: Every object of the benchmark with descriptions of our own; the mini org has exactly these.
FULL = OrgSchema(tuple(_parse_objects()))


_OUTSIDE = {name for o in FULL.objects for f in o.all_fields for name in f.refers_to if FULL.object(name) is None}


def outside_object(name: str) -> SObject | None:
    """Return an object that the benchmark's objects refer to and that every real org has, or None for other names.

    No table holds it: of its records nothing is known (``User.Profile``, ``ProductCategory.Catalog``).
    """
    told = dict.fromkeys(("Id", "Name", "DeveloperName", "Description"), "")
    return _unknown_object(name, told) if name in _OUTSIDE else None


def describe_object(name: str, descriptions: Mapping[str, str]) -> SObject:
    """Return an object with the published fields and descriptions, and with the facts known of it.

    :param descriptions: what the agent is told of each field, by name.
    """
    known = FULL.object(name)
    if known is None:
        return _unknown_object(name, descriptions)
    fields = tuple(
        _describe_field(known, _MISNAMED.get((known.name, field), field), text) for field, text in descriptions.items()
    )
    published = {field.name.lower() for field in fields}
    rest = tuple(field for field in known.all_fields if field.name.lower() not in published)
    return SObject(name, fields, known.key_prefix, rest)


def _describe_field(sobject: SObject, name: str, description: str) -> Field:
    known = sobject.field(name)
    return replace(known, name=name, description=description) if known else Field(name, description)


def _unknown_object(name: str, descriptions: Mapping[str, str]) -> SObject:
    fields = tuple(
        Field(field, text, "id" if field.lower() == "id" else "text") for field, text in descriptions.items()
    )
    return SObject(name, fields, hidden=_hidden_fields(fields, name))
