/** The version of this package. */
export const VERSION = "0.9.0";
