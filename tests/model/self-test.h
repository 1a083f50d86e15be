/* The judge is judged: each rule is broken once on purpose. */
#ifndef MODEL_SELF_TEST_H
#define MODEL_SELF_TEST_H

/* Prints one line of TAP a rule, numbered on from *n. Returns how many failed. */
int self_test(unsigned *n);

#endif
