/* An answer that says what is wrong, by RFC 9457. Any thread. */
#ifndef KVR_HTTP_PROBLEM_H
#define KVR_HTTP_PROBLEM_H

#define PROBLEM_TYPE "application/problem+json"

/* JSON from malloc; beside the members of RFC 9457 it has {"error":{"code":…,"message":…}}. What
 * cannot be printed of the message is a question mark: an error always gets an answer.
 * parameter: NULL, or the one of the request that is wrong. NULL: no memory. */
char *problem_text(unsigned status, const char *message, const char *parameter);

#endif
