/* A server of FUSE (fuse(4)), which has one file of zeros. */
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct server {
	int device;
	/* The file is `file` in the folder that is mounted, or else what is mounted. */
	int in_folder;
	unsigned pages;
	/* `FOPEN_` flags of each open file. */
	unsigned opened;
	/* The number of seconds for which the kernel caches the file's attributes and name. */
	unsigned long valid;
	/* After a request for an attribute (getxattr(2)) it stands still, until there is a byte to read here. */
	int still;
};

static struct fuse_attr attributes_of(const struct server *server, unsigned long node)
{
	if (server->in_folder && node == FUSE_ROOT_ID)
		return (struct fuse_attr){.ino = node, .mode = S_IFDIR | 0777, .nlink = 2};
	return (struct fuse_attr){.ino = node, .size = server->pages * 4096UL, .mode = S_IFREG | 0666, .nlink = 1};
}

/* Until nothing is mounted any more. */
static void serve(const struct server *server)
{
	static char buffer[FUSE_MIN_READ_BUFFER * 20];
	static struct {
		struct fuse_out_header head;
		union {
			struct fuse_init_out init;
			struct fuse_entry_out entry;
			struct fuse_attr_out attributes;
			struct fuse_open_out opened;
			struct fuse_statfs_out system;
			char data[16 * 4096];
		} body;
	} answer;
	for (ssize_t got; (got = read(server->device, buffer, sizeof buffer)) > 0;) {
		struct fuse_in_header *asked = (void *)buffer;
		size_t len = 0;
		memset(&answer, 0, sizeof answer);
		switch (asked->opcode) {
		case FUSE_INIT:
			answer.body.init = (struct fuse_init_out){.major = 7, .minor = 31, .max_write = sizeof answer.body.data};
			len = sizeof answer.body.init;
			break;
		case FUSE_LOOKUP:
			if (strcmp((char *)(asked + 1), "file")) {
				answer.head.error = -ENOENT;
				break;
			}
			answer.body.entry = (struct fuse_entry_out){
				.nodeid = FUSE_ROOT_ID + 1,
				.entry_valid = server->valid,
				.attr_valid = server->valid,
				.attr = attributes_of(server, FUSE_ROOT_ID + 1),
			};
			len = sizeof answer.body.entry;
			break;
		case FUSE_GETATTR:
			answer.body.attributes = (struct fuse_attr_out){
				.attr_valid = server->valid,
				.attr = attributes_of(server, asked->nodeid),
			};
			len = sizeof answer.body.attributes;
			break;
		case FUSE_OPEN:
			answer.body.opened.open_flags = server->opened;
			len = sizeof answer.body.opened;
			break;
		case FUSE_STATFS:
			len = sizeof answer.body.system;
			break;
		case FUSE_READ:
			len = ((struct fuse_read_in *)(asked + 1))->size;
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			continue;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			break;
		case FUSE_GETXATTR:
			answer.head.error = -ENODATA;
			break;
		default:
			answer.head.error = -ENOSYS;
		}
		answer.head.unique = asked->unique;
		answer.head.len = sizeof answer.head + len;
		/* An interrupted process does not wait for the answer any more. */
		if (write(server->device, &answer, answer.head.len) < 0 && errno != ENOENT)
			break;
		if (asked->opcode == FUSE_GETXATTR)
			read(server->still, buffer, 1);
	}
	_exit(0);
}
