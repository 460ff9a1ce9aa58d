// Nothing: of the target that has this source only the precompiled header is wanted.
