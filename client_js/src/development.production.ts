/** What development.ts checks was found in development; none of it changes what a report says. */

export const checkNames = (): void => undefined;
export const checkOptions = (): void => undefined;
export const warnOfRefusal = (): void => undefined;
