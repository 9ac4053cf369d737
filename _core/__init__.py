"""The compiled core. One module per folder of csrc/; other extensions may cimport from here."""
