# NC_ADD_CFLAG(VARIABLE, FLAG): appends FLAG to VARIABLE where the compiler takes it without a warning.
AC_DEFUN([NC_ADD_CFLAG], [
    AS_VAR_PUSHDEF([cachevar], [nc_cv_cflag_$2])
    AC_CACHE_CHECK([whether $CC takes $2], [cachevar], [
        nc_save_cflags=$CFLAGS
        CFLAGS="$CFLAGS -Werror $2"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AS_VAR_SET([cachevar], [yes])], [AS_VAR_SET([cachevar], [no])])
        CFLAGS=$nc_save_cflags
    ])
    AS_VAR_IF([cachevar], [yes], [AS_VAR_APPEND([$1], [" $2"])])
    AS_VAR_POPDEF([cachevar])
])

# NC_ADD_LDFLAG(VARIABLE, FLAG): the same for the linker.
AC_DEFUN([NC_ADD_LDFLAG], [
    AS_VAR_PUSHDEF([cachevar], [nc_cv_ldflag_$2])
    AC_CACHE_CHECK([whether the linker takes $2], [cachevar], [
        nc_save_ldflags=$LDFLAGS
        LDFLAGS="$LDFLAGS $2"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AS_VAR_SET([cachevar], [yes])], [AS_VAR_SET([cachevar], [no])])
        LDFLAGS=$nc_save_ldflags
    ])
    AS_VAR_IF([cachevar], [yes], [AS_VAR_APPEND([$1], [" $2"])])
    AS_VAR_POPDEF([cachevar])
])

# NC_FORTIFY_LEVEL(VARIABLE): the highest _FORTIFY_SOURCE that compiler and C library know together, 3 or 2.
AC_DEFUN([NC_FORTIFY_LEVEL], [
    AC_CACHE_CHECK([for the level of _FORTIFY_SOURCE], [nc_cv_fortify_level], [
        nc_save_cflags=$CFLAGS
        CFLAGS="$CFLAGS -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"
        AC_COMPILE_IFELSE([AC_LANG_SOURCE([
@%:@include <features.h>
@%:@if __USE_FORTIFY_LEVEL < 3
@%:@error not here
@%:@endif
        ])], [nc_cv_fortify_level=3], [nc_cv_fortify_level=2])
        CFLAGS=$nc_save_cflags
    ])
    $1=$nc_cv_fortify_level
])
