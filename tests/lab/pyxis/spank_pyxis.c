/*
 * A stand-in for pyxis, NVIDIA's container plug-in of srun, for tests on one machine.
 *
 * It takes pyxis's options and keeps their meaning, with a private mount namespace for each step on each node: a small
 * root of its own, the mounts really bound, the image's environment, a read-only root unless asked otherwise. There is
 * no enroot and no registry: an image is a file that describes a root (images.py writes it), and an image that is not a
 * path is looked for in the folder given as registry=DIR in plugstack.conf. state=DIR: where the roots are put together.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1);

#define MAGIC "stand-in image"
#define LINE 8192

enum { IMAGE, MOUNTS, WORKDIR, NAME, ENV, HOME, WRITABLE, REMAP, OPTIONS };

static char *text[OPTIONS];                            /* of options with a value */
static int flag[OPTIONS] = {[HOME] = -1, [WRITABLE] = -1, [REMAP] = -1};
static const char *registry = "", *state = "/run/pyxis-stand-in";
static char image_file[LINE], image_workdir[LINE];
static char *image_env[256];
static int image_env_count;
static int container = -1;                             /* the mount namespace */
static char failure[4 * LINE];                         /* what went wrong, one line each */
static char mount_point[LINE];                         /* left behind on the node by an unnamed container */

/* --- options --------------------------------------------------------------------------------------------------- */

static int with_value(int which, const char *value, int remote)
{
	(void)remote;
	if (text[which] && strcmp(text[which], value) != 0) {
		slurm_error("pyxis: an option was specified multiple times");
		return -1;
	}
	text[which] = strdup(value);
	return 0;
}

static int yes(int which, const char *value, int remote) { (void)value, (void)remote; flag[which] = 1; return 0; }
static int no(int which, const char *value, int remote) { (void)value, (void)remote; flag[which] = 0; return 0; }

static struct spank_option options[] = {
	{"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] image: a registry reference or a file", 1,
	 IMAGE, with_value},
	{"container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "[pyxis] bind mounts inside the container", 1, MOUNTS,
	 with_value},
	{"container-workdir", "PATH", "[pyxis] working directory inside the container", 1, WORKDIR, with_value},
	{"container-name", "NAME", "[pyxis] name under which the container is kept on the host", 1, NAME, with_value},
	{"container-env", "NAME[,NAME...]", "[pyxis] variables whose values here win over the image's", 1, ENV, with_value},
	{"container-mount-home", NULL, "[pyxis] bind mount the user's home directory", 0, HOME, yes},
	{"no-container-mount-home", NULL, "[pyxis] do not bind mount the user's home directory", 0, HOME, no},
	{"container-writable", NULL, "[pyxis] make the container filesystem writable", 0, WRITABLE, yes},
	{"container-readonly", NULL, "[pyxis] make the container filesystem read-only", 0, WRITABLE, no},
	{"container-remap-root", NULL, "[pyxis] be root inside the container", 0, REMAP, yes},
	{"no-container-remap-root", NULL, "[pyxis] do not be root inside the container", 0, REMAP, no},
	SPANK_OPTIONS_TABLE_END
};

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	spank_context_t where = spank_context();

	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "registry=", 9))
			registry = argv[i] + 9;
		else if (!strncmp(argv[i], "state=", 6))
			state = argv[i] + 6;
	}
	if (where != S_CTX_LOCAL && where != S_CTX_REMOTE) /* as pyxis by default: not for sbatch */
		return 0;
	for (struct spank_option *option = options; option->name; option++)
		if (spank_option_register(sp, option) != ESPANK_SUCCESS)
			return -1;
	return 0;
}

/* --- putting a container together (in a child, as root) --------------------------------------------------------- */

static void say(const char *format, ...)
{
	va_list list;
	size_t used = strlen(failure);

	va_start(list, format);
	vsnprintf(failure + used, sizeof(failure) - used, format, list);
	va_end(list);
	strncat(failure, "\n", sizeof(failure) - strlen(failure) - 1);
}

static int run(const char *program, const char *option, const char *first, const char *second)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (option)
			execlp(program, program, option, first, second, NULL);
		else
			execlp(program, program, first, second, NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static int make_dirs(const char *path)
{
	return run("mkdir", "-p", "--", path);
}

/* SRC at ROOT/DST, made there as what SRC is */
static int bind(const char *root, const char *source, const char *target, int readonly)
{
	char full[LINE], parent[LINE];
	struct stat about;
	int file;

	if (snprintf(full, sizeof(full), "%s/%s", root, target) >= (int)sizeof(full))
		return -1;
	if (stat(source, &about) < 0)
		goto fail;
	strcpy(parent, full);
	if (S_ISDIR(about.st_mode)) {
		if (make_dirs(full) < 0)
			goto fail;
	} else {
		*strrchr(parent, '/') = '\0';
		if (make_dirs(parent) < 0 || (file = open(full, O_CREAT | O_RDONLY, 0644)) < 0)
			goto fail;
		close(file);
	}
	if (mount(source, full, NULL, MS_BIND | MS_REC, NULL) < 0)
		goto fail;
	if (readonly && mount(NULL, full, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0)
		goto fail;
	return 0;
fail:
	say("    [ERROR] enroot-mount: failed to mount: %s at %s: %s", source, full, strerror(errno));
	return -1;
}

/* the image's file: its environment, working directory, root and binds; the last two only with a root to fill */
static int read_image(const char *root)
{
	char line[LINE], *target;
	FILE *file = fopen(image_file, "r");

	if (!file) {
		say("    [ERROR] No such file or directory: %s", image_file);
		return -1;
	}
	if (!fgets(line, sizeof(line), file) || strcmp(line, MAGIC "\n") != 0) {
		say("    [ERROR] Invalid image format: %s", image_file);
		fclose(file);
		return -1;
	}
	while (fgets(line, sizeof(line), file) && line[0] != '\0' && line[0] != '\n') {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "env ", 4) && !root && image_env_count < 256)
			image_env[image_env_count++] = strdup(line + 4);
		else if (!strncmp(line, "workdir ", 8))
			strcpy(image_workdir, line + 8);
		else if (root && !strncmp(line, "root ", 5)) {
			strncat(line, "/.", sizeof(line) - strlen(line) - 1);
			if (run("cp", "-a", line + 5, root) < 0)
				say("    [ERROR] cannot copy %s", line + 5);
		} else if (root && !strncmp(line, "bind ", 5)) {
			if ((target = strchr(line + 5, ' ')))
				*target++ = '\0';
			if (bind(root, line + 5, target ? target : line + 5, 1) < 0)
				break;
		}
	}
	fclose(file);
	return failure[0] ? -1 : 0;
}

static int bind_asked(const char *root)
{
	char *all = strdup(text[MOUNTS] ? text[MOUNTS] : ""), *rest = all, *one;

	while ((one = strsep(&rest, ",")) && *one) {
		char *source = strsep(&one, ":"), *target = one ? strsep(&one, ":") : source;

		if (bind(root, source, target, one && strstr(one, "ro") == one) < 0)
			break;
	}
	free(all);
	return failure[0] ? -1 : 0;
}

static int assemble(const char *root, uid_t uid, gid_t gid, int fresh)
{
	static const char *const system[] = {"/dev", "/proc", "/sys"};
	static const char *const file[] = {"/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group",
					   "/etc/nsswitch.conf"};
	char path[LINE], owner[64];
	struct passwd *user = getpwuid(uid);

	snprintf(owner, sizeof(owner), "%u:%u", uid, gid);
	snprintf(path, sizeof(path), "%s/tmp", root);
	if (make_dirs(path) < 0 || mount("tmpfs", path, "tmpfs", 0, "mode=1777") < 0)
		return -1;
	if (fresh && (read_image(root) < 0)) /* after /tmp, which may hold what an image binds */
		return -1;
	if (chmod(path, 01777) < 0) /* the image has one, too */
		return -1;
	if (fresh && chown(root, uid, gid) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(system) / sizeof(*system); i++)
		if (bind(root, system[i], system[i], 0) < 0)
			return -1;
	for (size_t i = 0; i < sizeof(file) / sizeof(*file); i++)
		if (access(file[i], R_OK) == 0 && bind(root, file[i], file[i], 1) < 0)
			return -1;
	if (flag[HOME] == 1 && user && bind(root, user->pw_dir, user->pw_dir, 0) < 0)
		return -1;
	if (bind_asked(root) < 0)
		return -1;
	if (flag[WRITABLE] != 1 && mount(NULL, root, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0)
		return -1;
	if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
		return -1;
	return chdir("/");
}

static void find_image(void)
{
	const char *asked = text[IMAGE];

	if (*asked == '/' || !strncmp(asked, "./", 2)) {
		snprintf(image_file, sizeof(image_file), "%s", asked);
		return;
	}
	if (!strncmp(asked, "docker://", 9))
		asked += 9;
	snprintf(image_file, sizeof(image_file), "%s/%s.sqsh", registry, asked);
	for (char *letter = image_file + strlen(registry) + 1; *letter; letter++)
		if (strchr("/#:", *letter))
			*letter = '+';
	if (access(image_file, R_OK) < 0) {
		say("child %d failed with error code: 1", getpid());
		say("failed to import docker image");
		say("printing enroot log file:");
		say("    [INFO] Querying registry for permission grant");
		say("    [INFO] Authenticating with user: <anonymous>");
		say("    [ERROR] URL https://registry-1.docker.io/v2/%s returned error code: 401 Unauthorized", asked);
	}
}

static void child(int out, int hold, uid_t uid, gid_t gid)
{
	const char *root = mount_point;
	struct stat about;
	char wait[1];
	int fresh;

	if (setresuid(0, 0, 0) < 0 || setresgid(0, 0, 0) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		say("cannot make a container: %s", strerror(errno));
		goto done;
	}
	fresh = !text[NAME] || stat(root, &about) < 0;
	if (make_dirs(root) < 0 || (text[NAME] ? mount(root, root, NULL, MS_BIND, NULL)
				    : mount("tmpfs", root, "tmpfs", 0, "mode=755")) < 0) {
		say("cannot make a container: %s", strerror(errno));
		goto done;
	}
	if (assemble(root, uid, gid, fresh) < 0 && !failure[0])
		say("    [ERROR] %s", strerror(errno));
done:
	if (write(out, failure[0] ? failure : "\n", failure[0] ? strlen(failure) : 1) > 0 && !failure[0])
		(void)!read(hold, wait, 1); /* until the namespace is held open */
	_exit(0);
}

/* --- in slurmstepd ---------------------------------------------------------------------------------------------- */

int slurm_spank_user_init(spank_t sp, int argc, char **argv)
{
	int out[2], hold[2];
	char path[64];
	ssize_t got;
	size_t used = 0;
	uid_t uid;
	gid_t gid;
	uint32_t job = 0, step = 0;
	char node[256] = "";
	pid_t pid;

	(void)argc, (void)argv;
	if (spank_context() != S_CTX_REMOTE || !text[IMAGE])
		return 0;
	spank_get_item(sp, S_JOB_UID, &uid);
	spank_get_item(sp, S_JOB_GID, &gid);
	spank_get_item(sp, S_JOB_ID, &job);
	spank_get_item(sp, S_JOB_STEPID, &step);
	gethostname(node, sizeof(node) - 1);
	if (text[NAME]) /* kept on the node: later steps of the job find it again */
		snprintf(mount_point, sizeof(mount_point), "%s/%s/pyxis_%u_%s", state, node, job, text[NAME]);
	else
		snprintf(mount_point, sizeof(mount_point), "%s/%s/pyxis_%u.%u", state, node, job, step);
	find_image();
	if (failure[0] || read_image(NULL) < 0)
		return 0; /* the tasks tell */
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(hold, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		child(out[1], hold[0], uid, gid);
	}
	close(out[1]);
	close(hold[0]);
	while (used < sizeof(failure) - 1 && (got = read(out[0], failure + used, sizeof(failure) - 1 - used)) > 0) {
		used += got;
		failure[used] = '\0';
		if (failure[0] == '\n')
			break;
	}
	if (failure[0] == '\n') {
		uid_t user = geteuid();
		failure[0] = '\0';
		snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
		if (seteuid(0) < 0 || (container = open(path, O_RDONLY | O_CLOEXEC)) < 0)
			say("cannot enter the container: %s", strerror(errno));
		if (seteuid(user) < 0)
			return -1;
	}
	close(hold[1]);
	close(out[0]);
	waitpid(pid, NULL, 0);
	return 0;
}

int slurm_spank_task_init_privileged(spank_t sp, int argc, char **argv)
{
	(void)sp, (void)argc, (void)argv;
	if (container >= 0 && setns(container, CLONE_NEWNS) < 0) {
		slurm_error("pyxis: couldn't join the container: %s", strerror(errno));
		return -1;
	}
	return 0;
}

static int named(const char *list, const char *name, size_t length)
{
	for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : "")
		if (!strncmp(at, name, length) && (at[length] == ',' || at[length] == '\0'))
			return 1;
	return 0;
}

static int write_map(const char *path, const char *format, unsigned id)
{
	char line[64];
	int file = open(path, O_WRONLY), length = snprintf(line, sizeof(line), format, id);
	int bad = file < 0 || write(file, line, length) != length;

	close(file);
	return bad ? -1 : 0;
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
	const char *dir = text[WORKDIR] ? text[WORKDIR] : image_workdir[0] ? image_workdir : "/";
	char old[LINE], *rest = failure, *line;
	uid_t uid = geteuid();
	gid_t gid = getegid();

	(void)argc, (void)argv;
	if (spank_context() != S_CTX_REMOTE || !text[IMAGE])
		return 0;
	if (failure[0]) {
		if (failure[0] == ' ') { /* enroot's own words */
			slurm_error("pyxis: container start failed with error code: 1");
			slurm_error("pyxis: printing enroot log file:");
		}
		while ((line = strsep(&rest, "\n")) && *line)
			slurm_error("pyxis: %s", line);
		slurm_error("pyxis: couldn't start container");
		return -1;
	}
	for (int i = 0; i < image_env_count; i++) {
		size_t length = strcspn(image_env[i], "=");
		char name[LINE];

		snprintf(name, sizeof(name), "%.*s", (int)length, image_env[i]);
		if (named(text[ENV], name, length) && spank_getenv(sp, name, old, sizeof(old)) == ESPANK_SUCCESS)
			continue;
		spank_setenv(sp, name, image_env[i] + length + 1, 1);
	}
	if (flag[REMAP] == 1 && /* who was root before may otherwise not write about itself below /proc */
	    (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || unshare(CLONE_NEWUSER) < 0 || write_map("/proc/self/setgroups", "deny", 0) < 0 ||
	     write_map("/proc/self/uid_map", "0 %u 1", uid) < 0 || write_map("/proc/self/gid_map", "0 %u 1", gid) < 0)) {
		slurm_error("pyxis: couldn't remap to root: %s", strerror(errno));
		return -1;
	}
	if (chdir(dir) < 0) {
		slurm_error("pyxis: couldn't chdir to %s: %s", dir, strerror(errno));
		return -1;
	}
	return 0;
}

int slurm_spank_exit(spank_t sp, int argc, char **argv)
{
	(void)sp, (void)argc, (void)argv;
	if (spank_context() == S_CTX_REMOTE && mount_point[0] && !text[NAME])
		rmdir(mount_point);
	return 0;
}
