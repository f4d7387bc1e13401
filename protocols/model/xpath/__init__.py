"""XPath as a language of interests: tree patterns over the XML document that an event carries.

    parse.py      text -> pattern, with the position of what is wrong
    pattern.py    the pattern: a tree of labels, child and descendant edges
    normal.py     the canonical form: redundant branches dropped, chains of `*` in one order, branches sorted
    contain.py    does every document that matches one pattern match the other? (by homomorphism)
    document.py   XML text -> the document as arrays, within limits
    embed.py      does a document match a pattern?

The fragment is XPath{/, //, *, [ ]} with equality of text and attributes as labels (paper 2, section 5: "complex,
tree-structured subscriptions"; the classes are those of Miklau and Suciu). A pattern says yes or no about a document:
what its last step selects does not matter, only that there is something to select.
"""
