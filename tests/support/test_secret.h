/* The secret of every request of the tests' engines, where source and target are two processes. */
#ifndef KVR_TESTS_TEST_SECRET_H
#define KVR_TESTS_TEST_SECRET_H

#define TEST_SECRET "6b76726169006b768292a2b2c2d2e2f201122334455667788a9babbccddeeff0"

#endif
