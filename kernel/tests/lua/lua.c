// Lua. Runs the script next to this program that has its name and the suffix `.lua`.
#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>
#include <stdio.h>

int main(int argc, char **argv) {
    (void)argc;
    char script[4096];
    snprintf(script, sizeof script, "%s.lua", argv[0]);
    lua_State *lua = luaL_newstate();
    if (!lua) return 2;
    luaL_openlibs(lua);
    if (luaL_dofile(lua, script)) {
        fprintf(stderr, "%s\n", lua_tostring(lua, -1));
        return 1;
    }
    lua_close(lua);
    return 0;
}
