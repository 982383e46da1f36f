/* How many areas of this process lie in a range, wholly or in part. After <stdio.h>. */
static int areas_in(const char *at, unsigned long length)
{
	static char line[512];
	int count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		unsigned long start, end;
		if (sscanf(line, "%lx-%lx", &start, &end) == 2)
			count += start < (unsigned long)at + length && end > (unsigned long)at;
	}
	fclose(maps);
	return count;
}
