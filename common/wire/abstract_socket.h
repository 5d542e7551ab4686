/* Sockets between processes of one user on one host. Their names are in the network namespace and
 * in no file system, so they also join containers that share no folder. Any process may list the
 * names and dial them: either end checks the user at the other. No state; any thread. */
#ifndef KVR_WIRE_ABSTRACT_SOCKET_H
#define KVR_WIRE_ABSTRACT_SOCKET_H

/* Packets (SOCK_SEQPACKET), non-blocking, closed on exec. -1 with errno. */
int kvr_abstract_listen(const char *name, int backlog);
/* EPERM: a process of another user listens there. EAGAIN: its backlog is full. */
int kvr_abstract_connect(const char *name);
/* The next connection of a process of this user; others are closed. -1 with EAGAIN: none waits. -1
 * with EBUSY: many others were closed, and more connections may wait. */
int kvr_abstract_accept(int listener);

#endif
