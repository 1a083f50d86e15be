/*
 * Marks in a text for people: what follows is good, worth a look, or wrong, until NC_MARK_END.
 *
 * They are control characters: whoever passes on what came from outside leaves none in it, and
 * process/terminal.c makes colours of them, or nothing.
 */
#ifndef NC_MARKS_H
#define NC_MARKS_H

#define NC_MARK_GOOD "\001"
#define NC_MARK_NOTICE "\002"
#define NC_MARK_BAD "\003"
#define NC_MARK_END "\004"

#endif
